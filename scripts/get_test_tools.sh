#!/bin/sh
# Installs optional test tools where possible; without them, some tests are skipped. Argument: the folder of
# the environment's programs.
programs=$1

# Playwright tests the console's page, if a Chromium is installed.
for browser in chromium chromium-browser google-chrome; do
    if command -v "$browser" >/dev/null; then
        "$programs/python" -c "import playwright" 2>/dev/null ||
            "$programs/pip" install -q --no-build-isolation -e ".[browser]" ||
            echo "without Playwright the console's page is not tested"
        break
    fi
done

# The worlds for Gazebo are checked against sdformat's own descriptions.
if ! ls /usr/share/sdformat*/1.9/root.sdf >/dev/null 2>&1 &&
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends sdformat-sdf; } >/dev/null 2>&1 ||
        echo "without sdformat-sdf worlds are not checked against sdformat's descriptions"
fi
exit 0
