"""What benches/compare, scripts/soak and their tests share: masters, processes, load, figures."""
