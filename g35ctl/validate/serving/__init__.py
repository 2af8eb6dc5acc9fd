"""The serving suite: the site's own version of the published comparison of cache paths."""
