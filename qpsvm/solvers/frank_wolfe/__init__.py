"""Frank-Wolfe methods: linear oracles, nearest extreme points, and projected gradients beside them."""
