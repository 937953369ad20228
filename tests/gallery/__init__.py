"""Every partial of the inspector as pages show it, on one page.

The pages are those of a project in which all has happened that the inspector tells of.
`python -m tests.gallery` draws them into `var/artefacts/gallery.html`.
"""
