"""Problems on one simplex over shards: Frank-Wolfe, the core vector machine and the minimum-norm point."""
