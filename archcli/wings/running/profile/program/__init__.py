"""Reports of a watched program: shares of a step by place and class, and a summary with what to try."""
