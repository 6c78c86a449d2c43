"""How to call each op of ``torch.nn.functional``: a module each, named as the op is."""
