// Shows the message for a wrong token.

document.getElementById("wrong").hidden = location.search !== "?wrong";
