"""Which checkpoint will transfer best, and which score foretells it (NeuCRaB)?"""
