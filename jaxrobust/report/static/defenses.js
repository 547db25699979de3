"use strict";
// Defended models: adaptive attacks beside oblivious ones, which are ranked nowhere. Text is text nodes only.
(() => {
  const { h, table, headers, many, percent, modelLink } = JR.tools;
  const WAYS = [["Clean", "Right without an attack"], ["Adaptive", "The attack knows the defense: BPDA, or the mean gradient over its draws"],
    ["Naive gradient", "Oblivious: the gradient through the defense itself, of one draw"], ["Images without it", "Oblivious: images made on the network inside, shown to the defended one"]];

  const cell = (number, main) => (number === null ? h("td", { class: "none" }, h("span", { "aria-label": "not measured" }, "–"))
    : h("td", { class: main ? "main" : null, title: `95 % interval ${percent(number[1])}–${percent(number[2])}, ${many(number[3], "example")}` }, percent(number[0])));

  JR.view({ place: "defenses", title: "Defenses", there: (index) => (index.defenses || []).length > 0, show: (index) => {
    // Nodes are in one place at a time: each table has heads of its own.
    const heads = () => [...headers("Model"), WAYS.map(([name, title]) => h("th", { scope: "col", title }, name))];
    const tables = index.defenses.map((one) => table(`${one.data}, ${one.attack}: accuracy in per cent`, heads(),
      one.rows.map(([at, ...numbers]) => h("tr", {}, h("th", { scope: "row", class: "name" }, modelLink(at, index.models[at].name)), numbers.map((number, way) => cell(number, way === 1)))), "board"));
    return [h("h1", { tabindex: "-1" }, "Defenses, adaptive and oblivious"), h("p", { class: "quiet" }, "Only the adaptive column says how robust a model is, and only that one enters the leaderboard. What an attack leaves that ignores the defense shows how much of an apparent robustness is none."), tables];
  } });
})();
