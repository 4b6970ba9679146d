"""Many machines on one kernel matrix: pairs of classes, folds, penalties."""
