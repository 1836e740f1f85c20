"""Front ends, pooling and projectors of encoders of images and sounds."""
