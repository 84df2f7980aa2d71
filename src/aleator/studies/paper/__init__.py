"""The studies that repeat the tables and figures of the paper."""
