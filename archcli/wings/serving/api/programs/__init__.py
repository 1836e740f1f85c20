"""Reports on programs that run or train models: engines and trainers."""
