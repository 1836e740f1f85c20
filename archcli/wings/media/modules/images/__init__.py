"""What becomes of images beside an encoder: rarer tiles, their arrangement, and what makes images."""
