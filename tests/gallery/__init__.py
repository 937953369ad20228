"""Every partial of the inspector as pages show it, on one page.

The pages are those of a project with every state that the inspector shows.
`python -m tests.gallery` draws them into `var/artefacts/gallery.html`.
"""
