"""Sequential minimal optimization: steps of coordinate pairs."""
