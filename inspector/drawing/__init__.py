"""Drawing of values: cells, charts, trees and messages."""
