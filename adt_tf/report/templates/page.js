"use strict";

/* Sorting: clicks on a heading sort up, down, and in the original order. */
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const value = (row) => row.cells[column].dataset.value;
    const numeric = original.every((row) => !Number.isNaN(+value(row)));
    const compare = (a, b) => numeric
      ? value(a) - value(b)
      : value(a).localeCompare(value(b), "en", { numeric: true });
    const next = {
      none: "ascending",
      ascending: "descending",
      descending: "none",
    };
    heading.querySelector("button").addEventListener("click", () => {
      const order = next[heading.getAttribute("aria-sort") || "none"];
      for (const other of headings) other.removeAttribute("aria-sort");
      const rows = [...original];
      if (order !== "none") {
        heading.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        rows.sort((a, b) => sign * compare(a, b));
      }
      body.append(...rows);
    });
  });
}

/* The slider chooses the radius at which the images are shown. */
const stored = document.getElementById("sweep");
if (stored) {
  const sweep = JSON.parse(stored.textContent);
  const root = document.querySelector(".sweep");
  const slider = document.getElementById("radius");
  const readout = root.querySelector("output");
  const cursor = root.querySelector(".cursor");
  const strips = [...root.querySelectorAll(".strip")];
  const show = () => {
    const at = +slider.value;
    readout.textContent = sweep.radii[at];
    slider.setAttribute("aria-valuetext", `epsilon ${sweep.radii[at]}`);
    cursor.setAttribute("transform", `translate(${sweep.places[at]} 0)`);
    strips.forEach((strip, model) => {
      strip.querySelector("h3 span").textContent = sweep.accuracy[model][at];
      strip.querySelectorAll(".tile").forEach((tile, i) => {
        const predicted = sweep.predicted[model][at][i];
        const right = predicted === sweep.labels[i];
        const image = tile.querySelector("img");
        image.src = sweep.images[model][at][i];
        image.alt =
          `Image ${i + 1}, class ${sweep.labels[i]}, seen as ${predicted}`;
        tile.querySelector("figcaption").textContent = predicted;
        tile.classList.toggle("right", right);
        tile.classList.toggle("wrong", !right);
      });
    });
  };
  slider.hidden = false;
  /* Some browsers restore the slider's position on reload. */
  slider.value = root.dataset.start;
  slider.addEventListener("input", show);
  show();
}

/* Enlarged images: a modal dialog, which the browser closes on Esc. */
const dialog = document.getElementById("zoom");
const zooms = [...document.querySelectorAll("button.zoom")];
let current = 0;
const enlarge = (index) => {
  current = (index + zooms.length) % zooms.length;
  const source = zooms[current].querySelector("img");
  const image = dialog.querySelector("img");
  image.src = source.src;
  image.alt = source.alt;
  const small = Math.max(source.naturalWidth, source.naturalHeight) <= 64;
  image.classList.toggle("pixels", small);
  document.getElementById("zoom-caption").textContent = source.alt;
};
zooms.forEach((button, index) => {
  button.addEventListener("click", () => {
    enlarge(index);
    dialog.showModal();
  });
});
dialog.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step) {
    event.preventDefault();
    enlarge(current + step);
  }
});
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});
document.getElementById("zoom-close").addEventListener("click", () => {
  dialog.close();
});

/* Print shows all details. */
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) {
    details.open = true;
  }
});
