"""Models of images and sounds, and the towers that stand beside a language model."""
