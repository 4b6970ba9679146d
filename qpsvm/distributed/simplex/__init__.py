"""Problems on simplices over shards: Frank-Wolfe, core vector machine and minimum-norm point."""
