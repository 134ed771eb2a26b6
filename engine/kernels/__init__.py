"""What runs over the pool: attention over its blocks, LoRA over its adapter pages. Imports torch."""
