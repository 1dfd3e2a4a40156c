"""What tests share: models, runs, tables of bad input, programs to start."""
