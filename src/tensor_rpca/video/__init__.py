"""What moves and what is there: films in, backgrounds, foregrounds and masks out."""

from tensor_rpca.video.read import read
from tensor_rpca.video.subtract import Separation, subtract_background
from tensor_rpca.video.write import write

__all__ = ["Separation", "read", "subtract_background", "write"]
