// Says that the token was wrong.

import "./words.js";

document.getElementById("wrong").hidden = location.search !== "?wrong";
