"""eddyline: continuous queries over streams, exact under any plan, embedded or on Spark.

>>> import eddyline
>>> session = eddyline.Session()
"""

from eddyline.errors import EddylineError, UserError
from eddyline.session import Query, Session
from eddyline.settings import Settings

__all__ = ["EddylineError", "Query", "Session", "Settings", "UserError"]
