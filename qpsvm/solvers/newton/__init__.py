"""Newton steps on the squared hinge, in w or on a predicted support."""
