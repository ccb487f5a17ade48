// Says that the token was wrong.

document.getElementById("wrong").hidden = location.search !== "?wrong";
