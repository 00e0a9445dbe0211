// Search in the index that mkdocs writes: every word must occur; headings count more than text.
// A browser does not read the index from a file, so there the field stays hidden.
const base = document.currentScript.dataset.base;
const field = document.getElementById("search");
const found = document.getElementById("found");
const menu = document.getElementById("menu");
let index = null;

function score(entry, words) {
    const title = entry.title.toLowerCase();
    const text = entry.text.toLowerCase();
    let sum = 0;
    for (const word of words) {
        const points = (title.includes(word) ? 10 : 0) + (text.includes(word) ? 1 : 0);
        if (points === 0) {
            return 0;
        }
        sum += points;
    }
    return sum;
}

function row(entry) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `${base}/${entry.location}`;
    link.textContent = entry.title;
    const place = document.createElement("small");
    place.textContent = ` ${entry.location.split("#")[0]}`;
    link.append(place);
    item.append(link);
    return item;
}

function search() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    menu.hidden = words.length > 0;
    found.hidden = words.length === 0;
    const rows = index.map((entry) => [score(entry, words), entry]).filter(([points]) => points > 0)
        .sort((a, b) => b[0] - a[0]).slice(0, 30).map(([, entry]) => row(entry));
    found.replaceChildren(...rows);
}

if (location.protocol !== "file:") {
    fetch(`${base}/search/search_index.json`).then((answer) => answer.json()).then((answer) => {
        index = answer.docs;
        field.hidden = false;
        field.addEventListener("input", search);
    });
}
