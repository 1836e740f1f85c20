"""What fits where: the question, formats and their choice, the verdict, many models, this machine."""
