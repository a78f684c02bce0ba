"""Tables, charts and the HTML page. Altair loads when the first chart is drawn."""

from unseen.reports.charts import save_chart
from unseen.reports.page import write_report

__all__ = ["save_chart", "write_report"]
