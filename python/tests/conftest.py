# SPDX-License-Identifier: Apache-2.0
"""No plan database of the user's decides about a test."""

import os
import tempfile

os.environ["MEGACONV_CACHE_DIR"] = tempfile.mkdtemp(prefix="megaconv_no_plans_")
