"""The studies that ask what the paper does not."""
