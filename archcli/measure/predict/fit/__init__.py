"""What fits where: the largest format of a model on a device, the longest context, and its speed."""
