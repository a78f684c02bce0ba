"""Run a study: plan its cells, extract features, evaluate the cells, record the results and write the report."""
