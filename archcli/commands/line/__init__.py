"""What all subcommands share on the command line: options, help, completion, and how the program ends."""
