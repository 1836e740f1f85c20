"""The picture of a profile: of an architecture, of a program, of a module of the user's."""
