#!/bin/sh
# What some tests use where it can be had; they are skipped without it. Its argument: the environment's programs.
programs=$1

# Playwright opens the console's page where there is a Chromium to open it in.
for browser in chromium chromium-browser google-chrome; do
    if command -v "$browser" >/dev/null; then
        "$programs/python" -c "import playwright" 2>/dev/null ||
            "$programs/pip" install -q --no-build-isolation -e ".[browser]" ||
            echo "without Playwright the console's page is not tested"
        break
    fi
done

# sdformat's own descriptions judge the worlds for Gazebo.
if ! ls /usr/share/sdformat*/1.9/root.sdf >/dev/null 2>&1 &&
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends sdformat-sdf; } >/dev/null 2>&1 ||
        echo "without sdformat-sdf worlds are not checked against sdformat's descriptions"
fi
exit 0
