"use strict";
// Taking things along: the address of a view, a page that embeds it, tables as CSV, figures as SVG.
JR.share = (() => {
  const { h, say } = JR.tools;
  const PROPERTIES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "font-size", "font-family"];

  function download(name, type, text) {
    const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    say(`${name} was saved`);
  }

  const fileName = (title, ending) => `${title.replace(/[^\w.-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 80).toLowerCase() || "robustness"}.${ending}`;

  // A spreadsheet would run a text that begins like a formula.
  function field(text) {
    const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  function shown(cell) {
    const copy = cell.cloneNode(true);
    copy.querySelectorAll(".interval, .meter, .arrow, .other, .meta, .mark").forEach((node) => node.remove());
    return copy.textContent.trim().replace(/\s+/g, " ");
  }

  function saveTable(table) {
    const rows = [...table.rows].map((row) => [...row.cells].filter((cell) => !cell.classList.contains("pick")).map((cell) => field(shown(cell))).join(","));
    download(fileName(table.caption.textContent, "csv"), "text/csv", `${rows.join("\r\n")}\r\n`);
  }

  // The style sheet does not travel with a figure, so that what it gives is written into every part of it.
  function saveFigure(drawing, title) {
    const copy = drawing.cloneNode(true), from = [drawing, ...drawing.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((node, at) => {
      const style = getComputedStyle(node);
      for (const name of PROPERTIES) to[at].setAttribute(name, style.getPropertyValue(name));
    });
    const [, , width, height] = drawing.getAttribute("viewBox").split(" ");
    for (const [name, value] of [["xmlns", "http://www.w3.org/2000/svg"], ["width", width], ["height", height]]) copy.setAttribute(name, value);
    download(fileName(title, "svg"), "image/svg+xml", new XMLSerializer().serializeToString(copy));
  }

  const button = (text, act) => h("button", { type: "button", class: "copy", onclick: act }, text);
  const copy = (text, what) => navigator.clipboard?.writeText(text).then(() => say(`${what} was copied`), () => say("The browser did not allow copying"));
  const quoted = (text) => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
  const embedded = () => `<iframe src="${quoted(location.href)}" title="${quoted(document.title)}" width="100%" height="640" loading="lazy"></iframe>`;

  return {
    tableButton: () => h("div", { class: "save" }, button("CSV", (event) => saveTable(event.target.closest(".scroll").querySelector("table")))),
    figureButton: (drawing, title) => h("div", { class: "save" }, button("SVG", () => saveFigure(drawing, title))),
    links: () => h("p", { class: "share" }, button("Copy a link to this view", () => copy(location.href, "The link")), button("Copy code that embeds it", () => copy(embedded(), "The code"))),
  };
})();
