"""Sequential minimal optimization: pairs of coordinates."""
