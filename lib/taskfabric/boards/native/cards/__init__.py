"""The native board under Kanboard's API: what a card shows and how it is changed there, in SQL."""
