"""The demo: real data that come with scikit-learn, each problem by each method that fits it."""
