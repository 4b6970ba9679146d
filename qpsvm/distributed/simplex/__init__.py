"""Problems on one simplex over shards: Frank-Wolfe, core vector machine and minimum-norm point."""
