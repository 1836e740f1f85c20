"""Media: encoders of images and sounds beside a language model."""
