"""The demo: real data of scikit-learn, each problem solved by each method that fits it."""
