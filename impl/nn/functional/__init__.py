"""The ops of ``torch.nn.functional``: a file each, named as the op is."""
