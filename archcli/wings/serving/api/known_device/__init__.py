"""What is known of a device: its memory, peaks, links, constants, local profiles and engines' kernels."""
