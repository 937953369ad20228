"""Words: what each means, once, for hovers and for the page of all."""
