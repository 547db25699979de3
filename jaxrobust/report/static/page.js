"use strict";
// The leaderboard page. Text from results reaches the document as text nodes only, never as markup.
const JR = (() => {
  const SERIES = 6, PAGE = 50, MOST = 4, COLUMNS = 8, PICTURES = 12;
  // A phone sees the numbers first: filters are folded, drawings as wide as the screen.
  const NARROW = matchMedia("(max-width: 42rem)");
  const room = (most) => Math.max(Math.min(most, document.documentElement.clientWidth - 58), 280);
  let index = null;
  const documents = new Map(), waiting = new Map(), chosen = [];

  // ---- elements ------------------------------------------------------------------------------------------------
  const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const s = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (name === "mix") node.style.setProperty("--mix", value);
      else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat(9).filter((child) => child !== null && child !== undefined));
    return node;
  }
  const $ = (id) => document.getElementById(id);
  const say = (text) => { $("status").textContent = text; };
  const unknown = (text) => (text === null || text === "" ? "unknown" : text);
  const percent = (value) => value.toFixed(1);
  const span = (number) => `${percent(number[1])}–${percent(number[2])}`;
  const tell = (number) => `${number[0].toFixed(2)} %, 95 % interval ${span(number)}, ${number[3].toLocaleString("en")} examples`;
  const threatOf = (board) => (board.threat ? `${board.threat} ${board.eps}${board.unit ? ` ${board.unit}` : ""}` : "no attack");
  const boardName = (board) => `${board.data}, ${threatOf(board)}`;
  const many = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  const named = (text) => h("bdi", { class: "clamp", title: text.length > 40 ? text : null }, text);

  function about(model) {
    const size = model.params === null ? null : `${model.params < 1e6 ? Math.round(model.params / 1e3) + " k" : (model.params / 1e6).toPrecision(3) + " M"} parameters`;
    const paper = model.published || {}, extra = paper.extra_data === true ? "extra data" : paper.extra_data === false ? "no extra data" : null;
    const title = paper.name === model.name ? null : paper.name;
    return [title, model.arch, model.family, model.technique, size, paper.venue, extra].filter((part, at, all) => part && all.indexOf(part) === at).join(" · ");
  }

  // A mark that whoever published a number has put on it.
  const marks = (model) => ((model.published || {}).unreliable ? h("span", { class: "mark", title: "The source marks this number as unreliable: a stronger attack may break the model" }, "unreliable") : null);

  function numberCell(number, main, usual) {
    if (number === null || number === undefined) return h("td", { class: "none" }, h("span", { "aria-label": "not measured" }, "–"));
    const cell = h("td", { class: main ? "main" : null, title: tell(number) }, percent(number[0]));
    if (main) {
      const band = h("i"), tick = h("b");
      band.style.left = `${number[1]}%`;
      band.style.width = `${Math.max(number[2] - number[1], 0)}%`;
      tick.style.left = `calc(${number[0]}% - 1px)`;
      cell.append(h("span", { class: "meter", "aria-hidden": "true" }, band, tick));
    }
    cell.append(h("span", { class: "interval" }, span(number)));
    if (usual && number[3] !== usual) cell.append(h("span", { class: "other" }, `n = ${number[3].toLocaleString("en")}`));
    return cell;
  }

  function choice(label, name, options, value, change) {
    const select = h("select", { name, onchange: () => change(select.value) });
    for (const [key, text] of options) select.append(h("option", { value: key, selected: key === value }, text));
    return h("label", {}, label, select);
  }

  const table = (caption, head, rows, kind) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { class: kind }, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)), JR.share.tableButton());
  const headers = (...names) => names.map((name) => h("th", { scope: "col", class: "left" }, name));

  function pager(count, page, go) {
    const last = Math.max(Math.ceil(count / PAGE) - 1, 0);
    if (last === 0) return null;
    const from = page * PAGE;
    return h("nav", { class: "pages", "aria-label": "Pages" },
      h("button", { type: "button", disabled: page === 0, onclick: () => go(page - 1) }, "Previous"),
      h("span", {}, `${(from + 1).toLocaleString("en")}–${Math.min(from + PAGE, count).toLocaleString("en")} of ${count.toLocaleString("en")}`),
      h("button", { type: "button", disabled: page === last, onclick: () => go(page + 1) }, "Next"));
  }

  const collator = new Intl.Collator("en", { numeric: true });

  // ---- the leaderboard -----------------------------------------------------------------------------------------
  const first = { data: "", threat: "", family: "", technique: "", q: "", sort: "", dir: "desc", page: "0", intervals: "", all: "", by: "" };
  let view = { ...first };

  function currentBoard() {
    const data = index.boards.some((board) => board.data === view.data) ? view.data : index.boards[0]?.data;
    const boards = index.boards.filter((board) => board.data === data);
    return boards.find((board) => threatOf(board) === view.threat) || usual(boards);
  }

  // The threat model under which most models were attacked in most ways; of several, the largest budget.
  const usual = (boards) => boards.reduce((best, board) => {
    const [a, b] = [best, board].map((one) => [one.threat === boards[0].threat, one.rows.length, one.columns.length]);
    const at = a.findIndex((value, k) => value !== b[k]);
    return at < 0 || b[at] > a[at] ? board : best;
  }, boards[0]);

  // Rankings hold what was attacked alike; the first is that of most models on most examples.
  const rankingOf = (board) => board.rankings.find((one) => rankingName(one) === view.by) || board.rankings[0] || { ranked: [], others: [], attacks: [], n: 0 };
  const rankingName = (ranking) => `${ranking.attacks.join(", ")}; ${ranking.n.toLocaleString("en")} examples`;
  const ranksOf = (ranking) => new Map(ranking.ranked.map(([at, number, rank]) => [at, { number, rank }]));

  function boardRows(board) {
    const ranks = ranksOf(rankingOf(board));
    const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
    // The first column of an attacked board is the worst case over the attacks of the ranking.
    const seen = board.threat ? board.rows.map((row) => [row[0], ranks.get(row[0])?.number ?? null, ...row.slice(2)]) : [...board.rows];
    const rows = seen.filter((row) => {
      const model = index.models[row[0]];
      const text = `${model.name} ${about(model)}`.toLowerCase();
      return (!view.family || unknown(model.family) === view.family) && (!view.technique || unknown(model.technique) === view.technique) &&
        words.every((word) => text.includes(word));
    });
    const at = view.sort === "name" ? -1 : Math.max(board.columns.findIndex((column) => column.key === view.sort), 0) + 1;
    const sign = view.dir === "asc" ? 1 : -1;
    const byName = (a, b) => collator.compare(index.models[a[0]].name, index.models[b[0]].name);
    return rows.sort((a, b) => {
      if (at < 0) return sign * byName(a, b);
      if (a[at] === null || b[at] === null) return (a[at] === null) - (b[at] === null) || byName(a, b);
      return sign * (a[at][0] - b[at][0]) || byName(a, b);
    });
  }

  function remember() {
    const words = new URLSearchParams(Object.entries(view).filter(([key, value]) => value !== first[key]));
    const hash = `#/${words.size ? `?${words}` : ""}`;
    try { history.replaceState(null, "", hash); } catch { /* Some browsers refuse this for files; the view still works. */ }
  }

  function showBoard(words) {
    view = { ...first };
    for (const key of Object.keys(view)) if (words.has(key)) view[key] = words.get(key);
    const board = currentBoard();
    if (!board) return [h("h1", { tabindex: "-1" }, "No results yet"), h("p", {}, "The results folder holds no cell that could be read."), problems()];
    const body = h("div"), filters = h("form", { class: "filters", onsubmit: (event) => event.preventDefault() });
    const update = (key, value) => {
      const typing = key === "q";
      view = { ...view, page: "0", [key]: value };
      if (key === "data") view.threat = "";
      if (key === "data" || key === "threat") view.by = "";
      remember();
      if (!typing && key !== "page" && key !== "sort" && key !== "dir") drawFilters(key);
      drawTable(key);
    };
    const drawFilters = (focus) => {
      const board = currentBoard();
      const values = (key) => [...new Set(board.rows.map((row) => unknown(index.models[row[0]][key])))].sort();
      const all = (text, key) => [["", text], ...values(key).map((value) => [value, value])];
      const sets = [...new Set(index.boards.map((board) => board.data))];
      const threats = index.boards.filter((other) => other.data === board.data).map(threatOf);
      const search = h("input", { type: "search", name: "q", value: view.q, placeholder: "name, architecture…", oninput: () => update("q", search.value) });
      const box = h("input", { type: "checkbox", name: "intervals", checked: view.intervals === "1", onchange: () => update("intervals", box.checked ? "1" : "") });
      const every = h("input", { type: "checkbox", name: "all", checked: view.all === "1", onchange: () => update("all", every.checked ? "1" : "") });
      filters.replaceChildren(
        choice("Data set", "data", sets.map((set) => [set, set]), board.data, (value) => update("data", value)),
        choice("Threat model", "threat", threats.map((threat) => [threat, threat]), threatOf(board), (value) => update("threat", value)),
        board.rankings.length > 1 ? choice("Ranked by", "by", board.rankings.map((one) => [rankingName(one), rankingName(one)]), rankingName(rankingOf(board)), (value) => update("by", value)) : "",
        choice("Architecture family", "family", all("All families", "family"), view.family, (value) => update("family", value)),
        choice("Technique", "technique", all("All techniques", "technique"), view.technique, (value) => update("technique", value)),
        h("label", {}, "Search", search), h("label", { class: "check" }, box, "95 % intervals"), board.columns.length > COLUMNS ? h("label", { class: "check" }, every, `all ${board.columns.length} columns`) : "");
      if (focus) filters.querySelector(`[name="${focus}"]`)?.focus();
    };
    const drawTable = (focus) => {
      const board = currentBoard(), rows = boardRows(board), page = Math.min(Number(view.page) || 0, Math.max(Math.ceil(rows.length / PAGE) - 1, 0));
      const sorted = view.sort || board.columns[0].key, columns = view.all ? board.columns : board.columns.slice(0, COLUMNS);
      const head = [h("td", { class: "rank" }, h("span", { class: "hidden" }, "Rank")), h("td", { class: "pick" }, h("span", { class: "hidden" }, "Compare")),
        sortHeader("name", "Model", "The model's name", "name", sorted), columns.map((column) => sortHeader(column.key, column.label, column.title, null, sorted)),
        h("th", { scope: "col", title: "Examples that the ranked number counts" }, "n"), h("th", { scope: "col", class: "left" }, "Attacked by")];
      const ranking = rankingOf(board), ranks = ranksOf(ranking), reasons = new Map(ranking.others), attacked = new Map(board.attacked);
      const shown = rows.slice(page * PAGE, (page + 1) * PAGE).map((row) => boardRow(row.slice(0, columns.length + 1), ranks.get(row[0])?.rank, reasons.get(row[0]), attacked.get(row[0]) || [], ranking));
      body.className = view.intervals ? "intervals" : "";
      body.replaceChildren(tradeOff(board, rows) || "", table(`${many(rows.length, "model")} on ${board.data}, ${threatOf(board)}. Accuracy in per cent${board.threat ? `; “Robust” is the worst case over ${ranking.attacks.join(", ")} on the first ${ranking.n.toLocaleString("en")} examples` : ""}.${ranking.others.length ? ` ${many(ranking.others.length, "model")} without a rank.` : ""}`, head, shown, "board"),
        pager(rows.length, page, (next) => update("page", String(next))) || "");
      if (rows.length === 0) body.append(h("p", { class: "quiet" }, "No model passes these filters."));
      if (focus) say(`${many(rows.length, "model")} shown`);
      if (focus === "sort") body.querySelector("th[aria-sort] button")?.focus();
    };
    const sortHeader = (key, label, title, kind, sorted) => {
      const on = key === sorted, down = view.dir === "desc";
      const flip = () => {
        view.dir = on ? (down ? "asc" : "desc") : key === "name" ? "asc" : "desc";
        update("sort", key);
      };
      return h("th", { scope: "col", class: kind, title, "aria-sort": on ? (down ? "descending" : "ascending") : null },
        h("button", { type: "button", onclick: flip }, key === "name" ? label : null, h("span", { class: "arrow", "aria-hidden": "true" }, on ? (down ? "↓" : "↑") : ""),
          key === "name" ? null : label.split(/(?<=, )/).map((part) => h("span", { class: "part" }, part))));
    };
    drawFilters();
    drawTable();
    const folded = h("details", { class: "fold", open: !NARROW.matches }, h("summary", {}, "Filters"), filters);
    return [h("h1", { tabindex: "-1" }, "How robust is each model?"),
      h("p", { class: "quiet" }, `${many(index.models.length, "model")}, ${many(index.cells, "cell")}. Every number leads to the files it was counted from: open a model.`),
      folded, body, reading(), problems()];
  }

  // Clean against robust accuracy of the models that are shown; a click leads to the model.
  function tradeOff(board, rows) {
    const clean = board.columns.findIndex((column) => column.key === "clean") + 1;
    const known = board.threat ? rows.filter((row) => row[1] && row[clean]) : [];
    if (known.length < 2) return null;
    const models = known.map((row) => {
      const model = index.models[row[0]];
      return { name: model.name, href: `#/model/${model.id}`, family: unknown(model.family), technique: unknown(model.technique), clean: row[clean], robust: row[1] };
    });
    return h("details", { open: true, class: "plot" }, h("summary", {}, "Clean against robust accuracy"), JR.scatter(models));
  }

  function boardRow(row, rank, reason, attacked, ranking) {
    const model = index.models[row[0]];
    const box = h("input", { type: "checkbox", "aria-label": `Compare ${model.name}`, checked: chosen.includes(model.id), onchange: () => pick(model.id, box) });
    const text = about(model);
    return h("tr", {}, h("td", { class: "rank" }, rank ? String(rank) : h("span", { "aria-label": "not ranked" }, "–")), h("td", { class: "pick" }, box),
      h("th", { scope: "row", class: "name" }, h("a", { href: `#/model/${model.id}` }, named(model.name)), marks(model), text ? h("div", { class: "meta clamp" }, text) : null,
        reason ? h("div", { class: "meta reason" }, `not ranked: ${reason}`) : null),
      row.slice(1).map((number, at) => numberCell(number, at === 0, ranking.n)),
      h("td", { class: "quiet" }, rank ? ranking.n.toLocaleString("en") : sizes(attacked)), h("td", { class: "left quiet attacks" }, attacked.map(([name]) => name).join(", ")));
  }

  const sizes = (attacked) => [...new Set(attacked.map(([, n]) => n))].sort((a, b) => a - b).map((n) => n.toLocaleString("en")).join(", ");

  const reading = () => h("details", {}, h("summary", {}, "How to read these numbers"),
    h("p", {}, "Clean is the accuracy without an attack. An attack's column is the accuracy that is left within the budget of the threat model. “Robust” counts an example only if none of the attacks that all ranked models went through broke it, on the same first examples; a model that lacks one of these attacks, or has fewer examples, is listed below without a rank. “Worst known” also counts attacks that were run on this model alone. Where a published number has no verdict per example, the least of the accuracies stands in."),
    h("p", {}, "Intervals are Wilson's 95 % score intervals: two models whose intervals overlap widely are not told apart by this many examples. Of cells that differ only in the number of examples, the largest is shown."));

  function problems() {
    if (index.problemCount === 0) return null;
    return h("details", { class: "note" }, h("summary", {}, `${many(index.problemCount, "file")} could not be used`),
      h("ul", {}, index.problems.map((text) => h("li", {}, h("code", {}, text)))));
  }

  // ---- choosing models -----------------------------------------------------------------------------------------
  function pick(id, box) {
    if (box.checked && chosen.length === MOST) {
      box.checked = false;
      say(`At most ${MOST} models can be compared`);
      return;
    }
    if (box.checked) chosen.push(id); else chosen.splice(chosen.indexOf(id), 1);
    tray();
    say(`${many(chosen.length, "model")} chosen for comparison`);
  }

  function tray() {
    const node = $("tray");
    node.hidden = chosen.length === 0;
    const clear = () => {
      chosen.length = 0;
      document.querySelectorAll("td.pick input").forEach((box) => { box.checked = false; });
      tray();
    };
    node.replaceChildren(...chosen.map((id) => h("bdi", { class: "chip" }, modelOf(id).name)),
      chosen.length > 1 ? h("a", { class: "go", href: `#/compare/${chosen.join(",")}?${new URLSearchParams({ board: boardName(currentBoard()) })}` }, `Compare ${chosen.length}`) : h("span", { class: "quiet" }, "Choose another model to compare"),
      h("button", { type: "button", onclick: clear }, "Clear"));
  }

  // ---- one model -----------------------------------------------------------------------------------------------
  const modelOf = (id) => index.models.find((model) => model.id === id);
  const fileLink = (path) => h("a", { href: index.root + path.split("/").map(encodeURIComponent).join("/") }, h("code", {}, path));

  function load(id) {
    if (documents.has(id)) return Promise.resolve(documents.get(id));
    if (!waiting.has(id)) {
      waiting.set(id, new Promise((resolve, reject) => {
        const script = h("script", { src: `data/models/${id}.js`, onload: () => (documents.has(id) ? resolve(documents.get(id)) : reject(new Error("empty"))), onerror: () => reject(new Error("absent")) });
        document.head.append(script);
      }));
    }
    return waiting.get(id);
  }

  // Cells that do not say what made them can be computed again by their own file.
  const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
  const commandOf = (cell) => cell.command ?? `jaxrobust reproduce ${quoted(index.given + cell.path)}`;

  function copyButton(text) {
    const button = h("button", { type: "button", class: "copy", onclick: () => {
      const done = () => { button.textContent = "Copied"; say("Copied"); };
      if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, () => say("The browser did not allow copying"));
    } }, "Copy");
    return button;
  }

  async function showModel(id) {
    const model = modelOf(id);
    if (!model) return [h("h1", { tabindex: "-1" }, "No such model"), h("p", {}, h("a", { href: "#/" }, "All models"))];
    const doc = await load(id);
    const sets = [...new Set(doc.cells.map((cell) => cell.data))];
    return [h("p", { class: "meta" }, h("a", { href: "#/" }, "All models"), " /"), h("h1", { tabindex: "-1" }, h("bdi", {}, model.name)),
      h("p", { class: "quiet" }, about(model) || "Nothing is recorded about this network.", " ", marks(model)), publication(model), standings(model, doc), curveSection(doc, sets), gridSection(doc, sets), transferSection(doc), pictureSection(doc), cellSection(doc)];
  }

  // Only addresses of the web become links.
  function publication(model) {
    const paper = model.published || {}, safe = /^https?:\/\//.test(paper.link || "");
    const parts = [paper.authors, paper.footnote, paper.reported ? `reported: ${paper.reported} %` : null].filter(Boolean);
    if (!safe && parts.length === 0) return null;
    return h("p", { class: "meta" }, safe ? [h("a", { href: paper.link, rel: "noreferrer noopener" }, named(paper.name || paper.link)), parts.length ? " · " : null] : null, parts.join(" · "));
  }

  function standings(model, doc) {
    const at = index.models.indexOf(model);
    const rows = Object.keys(doc.boards).map((key) => {
      const board = index.boards[Number(key)], own = board.rows.find((row) => row[0] === at);
      const ranking = board.rankings[0], place = ranking && ranksOf(ranking).get(at), reason = ranking && new Map(ranking.others).get(at);
      const numbers = board.columns.map((column, c) => {
        if (own[c + 1] === null) return null;
        const files = doc.boards[key][c];
        return h("li", {}, h("details", {}, h("summary", { title: column.title }, `${column.label} `, h("strong", {}, percent(own[c + 1][0]))),
          h("div", { class: "quiet" }, tell(own[c + 1])), h("ul", {}, files.map((path) => h("li", {}, fileLink(path))))));
      });
      const main = numberCell(own[1], true);
      return h("tr", {}, h("th", { scope: "row", class: "name" }, board.data, h("div", { class: "meta" }, threatOf(board))), main,
        h("td", {}, place ? `${place.rank} of ${ranking.ranked.length}` : h("span", { class: "quiet" }, reason ? `not ranked: ${reason}` : "–")), h("td", { class: "left" }, h("ul", { class: "numbers" }, numbers)));
    });
    if (rows.length === 0) return null;
    return h("section", {}, h("h2", {}, "Standing"), h("p", { class: "quiet" }, "Open a number to see the cell files it was counted from."),
      table("Worst-case accuracy by data set and threat model", [h("th", { scope: "col", class: "name" }, "Data set, threat"), h("th", { scope: "col" }, "Robust"), h("th", { scope: "col" }, "Rank"), h("th", { scope: "col", class: "left" }, "Numbers and their files")], rows, "standings"));
  }

  function curveSection(doc, sets) {
    const drawn = sets.filter((data) => doc.curves.some((curve) => curve.data === data) || severityPoints(doc, data).length > 1);
    if (drawn.length === 0) return null;
    const body = h("div", { class: "charts" }), draw = (data) => body.replaceChildren(...modelCharts(doc, data));
    draw(drawn[0]);
    const select = drawn.length > 1 ? h("form", { class: "filters" }, choice("Data set", "curves", drawn.map((data) => [data, data]), drawn[0], draw)) : null;
    return h("section", {}, h("h2", {}, "Curves"), select, body);
  }

  function modelCharts(doc, data) {
    const charts = [];
    const here = doc.curves.filter((curve) => curve.data === data && curve.threat);
    for (const threat of [...new Set(here.map((curve) => curve.threat))].sort(byThreat)) {
      const own = here.filter((curve) => curve.threat === threat), unit = own[0].unit;
      const budget = own.filter((curve) => curve.kind === "budget"), strength = own.filter((curve) => curve.kind === "strength");
      for (const [note, curves] of bySize(budget)) charts.push(lineChart(`${data}: accuracy against ${threat} budget${note}`, budgetLabel(own[0]), sensible(curves.map((curve) => ({ name: curve.attack, points: scaled(curve), proved: curve.proved })))));
      for (const eps of [...new Set(strength.map(budgetOf))]) {
        for (const [note, curves] of bySize(strength.filter((curve) => budgetOf(curve) === eps)))
          charts.push(lineChart(`${data}: accuracy against attack steps, ${threat} ${eps}${unit ? ` ${unit}` : ""}${note}`, STEPS, curves.map((curve) => ({ name: curve.attack, points: curve.points }))));
      }
    }
    const severity = severityPoints(doc, data);
    if (severity.length > 1) charts.push(lineChart(`${data}: accuracy against corruption severity`, "severity", [{ name: "mean over corruptions", points: severity }]));
    return charts;
  }

  const STEPS = "attack steps";
  // Curves over different examples do not belong in one chart: they begin at different accuracies.
  const bySize = (curves) => {
    const sizes = [...new Set(curves.map((curve) => curve.n))].sort((a, b) => b - a);
    return sizes.map((n) => [sizes.length > 1 ? `, first ${n.toLocaleString("en")} examples` : "", curves.filter((curve) => curve.n === n)]);
  };

  // The norms come first, other threats by name.
  const NORMS = ["linf", "l2", "l1"], place = (threat) => (NORMS.includes(threat) ? NORMS.indexOf(threat) : NORMS.length);
  const byThreat = (a, b) => place(a) - place(b) || (a < b ? -1 : 1);
  const budgetLabel = ({ threat, unit }) => (threat === "linf" ? "budget × 255" : `${threat} budget${unit ? `, ${unit}` : ""}`);
  const scaled = (curve) => (curve.threat === "linf" ? curve.points.map(([x, y]) => [x * 255, y]) : curve.points);
  const budgetOf = (curve) => curve.attack.split("@")[1] || "";
  // Distances have long tails; what is compared are budgets near those that were tried.
  const sensible = (series) => {
    const tried = series.filter((one) => one.points.length <= 9).map((one) => one.points.at(-1)[0]);
    const fallen = series.map((one) => (one.points.find((point) => point[1] <= 5) || one.points.at(-1))[0]);
    const limit = tried.length ? 2 * Math.max(...tried) : Math.max(...fallen);
    return series.map((one) => ({ ...one, points: one.points.filter((point) => point[0] <= limit) })).filter((one) => one.points.length > 1);
  };
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  function severityPoints(doc, data) {
    const found = new Map();
    for (const cell of doc.cells) {
      if (cell.data !== data || cell.attack !== "none") continue;
      const severity = cell.corruption ? cell.severity : cell.condition === "clean" ? 0 : null;
      if (severity !== null) found.set(severity, [...(found.get(severity) || []), cell.number[0]]);
    }
    return found.size > 1 || !found.has(0) ? [...found].map(([x, values]) => [x, mean(values)]).sort((a, b) => a[0] - b[0]) : [];
  }

  const heatCell = (value, title) => (value === undefined ? h("td", { class: "value none" }, "–") : h("td", { class: "value", mix: `${Math.round(value * 0.55)}%`, title }, percent(value)));

  function gridSection(doc, sets) {
    const grids = [];
    for (const data of sets) {
      const cells = doc.cells.filter((cell) => cell.data === data && cell.corruption);
      for (const attack of [...new Set(cells.map((cell) => (cell.eps ? `${cell.attack}@${cell.eps}` : cell.attack)))]) {
        const own = cells.filter((cell) => (cell.eps ? `${cell.attack}@${cell.eps}` : cell.attack) === attack);
        const severities = [...new Set(own.map((cell) => cell.severity))].sort((a, b) => a - b);
        const rows = [...new Set(own.map((cell) => cell.corruption))].sort().map((name) => {
          const values = severities.map((severity) => own.find((cell) => cell.corruption === name && cell.severity === severity));
          return h("tr", {}, h("th", { scope: "row" }, name.replaceAll("_", " ")), values.map((cell) => heatCell(cell?.number[0], cell && tell(cell.number))), heatCell(mean(values.filter(Boolean).map((cell) => cell.number[0]))));
        });
        const head = [h("th", { scope: "col" }, "Corruption"), severities.map((severity) => h("th", { scope: "col" }, String(severity))), h("th", { scope: "col" }, "mean")];
        grids.push(table(`${data}, ${attack === "none" ? "without an attack" : `under ${attack}`}: accuracy in per cent by severity`, head, rows, "heat"));
      }
    }
    return grids.length ? h("section", {}, h("h2", {}, "Corruptions"), grids) : null;
  }

  function transferSection(doc) {
    const cells = doc.cells.filter((cell) => cell.source);
    if (cells.length === 0) return null;
    const sources = [...new Set(cells.map((cell) => cell.source))].sort();
    const key = (cell) => `${cell.data}, ${cell.attack.split(":").pop()}${cell.eps ? ` at ${cell.eps}` : ""}`;
    const rows = [...new Set(cells.map(key))].sort().map((name) => h("tr", {}, h("th", { scope: "row" }, name), sources.map((source) => {
      const cell = cells.find((cell) => key(cell) === name && cell.source === source);
      return heatCell(cell?.number[0], cell && tell(cell.number));
    })));
    return h("section", {}, h("h2", {}, "Transfer"), h("p", { class: "quiet" }, "Accuracy on adversarial images that were made for another model."),
      table("Accuracy in per cent by source model", [h("th", { scope: "col" }, "Attack"), sources.map((source) => h("th", { scope: "col" }, named(source)))], rows, "heat"));
  }

  // By threat: the words under a picture of what it measures, and what the picture shows.
  const WHEEL = "Where pixels are fetched from: red from the right, green and blue clockwise, white from their own places";
  const WITNESSES = { flow: ["flow", WHEEL], warp: ["flow", WHEEL], color: ["color table", "A chart of colors, and under it what the table makes of them, changes four times as large"] };
  const distanceOf = ({ threat, unit, distance }) => `distance ${threat === "linf" ? `${+(distance * 255).toPrecision(3)}/255` : `${+distance.toPrecision(3)}${unit ? ` ${unit}` : ""}`}`;

  function pictureSection(doc) {
    if (doc.pictures.length === 0) return null;
    const figures = doc.pictures.map((picture) => {
      const label = picture.label_name ?? `class ${picture.label}`, taken = picture.prediction_name ?? picture.prediction;
      const shown = [["clean", `Clean image, classified as ${label}`, label], ["adversarial", `Adversarial image, classified as ${taken}`, `taken for ${taken}`],
        ["difference", `The perturbation, amplified ${picture.factor} times`, `change × ${picture.factor}`]];
      if (picture.witness) shown.push(["witness", WITNESSES[picture.threat]?.[1] ?? "What the threat measures", WITNESSES[picture.threat]?.[0] ?? "what is measured"]);
      return h("figure", {}, h("figcaption", {}, `${picture.data}, ${picture.attack}`, picture.distance == null ? null : h("div", { class: "quiet" }, distanceOf(picture))),
        h("div", { class: shown.length > 3 ? "triple four" : "triple" }, shown.map(([kind, text]) => h("img", { src: picture[kind], alt: text, title: text })), shown.map(([, , text]) => h("span", {}, text))));
    });
    const body = h("div", { class: "pictures" }, figures.slice(0, PICTURES));
    const more = h("button", { type: "button", onclick: () => { body.append(...figures.slice(PICTURES)); more.remove(); } }, `Show all ${figures.length}`);
    return h("section", {}, h("h2", {}, "Adversarial images"), body, figures.length > PICTURES ? h("p", {}, more) : null);
  }

  function cellSection(doc) {
    const body = h("div");
    const draw = (page) => {
      const rows = doc.cells.slice(page * PAGE, (page + 1) * PAGE).map((cell) => h("tr", {},
        h("td", { class: "left" }, cell.data), h("td", { class: "left" }, cell.condition), h("td", { class: "left wrap" }, cell.eps ? `${cell.attack}@${cell.eps}` : cell.attack === "none" ? "no attack" : cell.attack),
        h("td", { title: tell(cell.number) }, percent(cell.number[0])), h("td", { class: "quiet" }, span(cell.number)), h("td", {}, cell.number[3].toLocaleString("en")), h("td", {}, String(cell.seed)),
        h("td", { class: "left wrap" }, h("details", {}, h("summary", {}, "Command and file"), h("div", {}, h("code", {}, commandOf(cell)), copyButton(commandOf(cell))), h("div", {}, fileLink(cell.path)), cell.findings.map((text) => h("div", { class: "note" }, text))))));
      body.replaceChildren(table(`${many(doc.cells.length, "cell")} of this model`, [...headers("Data set", "Condition", "Attack"), h("th", { scope: "col" }, "Accuracy"), h("th", { scope: "col" }, "95 % interval"), h("th", { scope: "col" }, "Examples"), h("th", { scope: "col" }, "Seed"), ...headers("Source")], rows, "cells"), pager(doc.cells.length, page, draw) || "");
    };
    draw(0);
    return h("section", {}, h("h2", {}, "Every cell"), h("p", { class: "quiet" }, "The command computes the cell again; the file holds the verdict of each example."), body);
  }

  // ---- comparison ----------------------------------------------------------------------------------------------
  async function showCompare(ids, words) {
    const models = ids.map(modelOf).filter(Boolean);
    if (models.length < 2) return [h("h1", { tabindex: "-1" }, "Choose two models"), h("p", {}, h("a", { href: "#/" }, "All models"))];
    const docs = await Promise.all(models.map((model) => load(model.id)));
    const places = models.map((model) => index.models.indexOf(model));
    const boards = index.boards.filter((board) => places.filter((at) => board.rows.some((row) => row[0] === at)).length > 1);
    const title = [h("p", { class: "meta" }, h("a", { href: "#/" }, "All models"), " /"), h("h1", { tabindex: "-1" }, "Side by side")];
    if (boards.length === 0) return [title, h("p", {}, "These models share no data set and threat model.")];
    const body = h("div"), wished = boards.find((board) => boardName(board) === words.get("board")) || usual(boards);
    const draw = (wanted) => {
      const board = boards.find((board) => boardName(board) === wanted);
      body.replaceChildren(compareTable(board, models, places), h("h2", {}, "Curves"), compareCharts(board, models, docs), compareCorruptions(board.data, models, docs) || "");
    };
    const select = choice("Data set and threat model", "board", boards.map((board) => [boardName(board), boardName(board)]), boardName(wished), draw);
    draw(boardName(wished));
    return [title, h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, select), body];
  }

  const modelHeads = (models) => models.map((model) => h("th", { scope: "col" }, h("a", { href: `#/model/${model.id}` }, named(model.name))));

  function compareRows(names, numbers) {
    return names.map((label, at) => {
      const row = numbers.map((column) => column[at]);
      const top = Math.max(...row.filter(Boolean).map((number) => number[0]));
      const cells = row.map((number) => {
        const cell = numberCell(number, at === 0);
        if (number && number[0] === top && row.filter(Boolean).length > 1) cell.classList.add("best");
        return cell;
      });
      const gap = row.length === 2 && row[0] && row[1] ? h("td", { class: "quiet" }, (row[1][0] - row[0][0] > 0 ? "+" : "") + percent(row[1][0] - row[0][0])) : row.length === 2 ? h("td", { class: "none" }, "–") : null;
      return h("tr", {}, h("th", { scope: "row", class: "left" }, label), cells, gap);
    });
  }

  function compareTable(board, models, places) {
    const own = places.map((at) => (board.rows.find((row) => row[0] === at) || [at, ...board.columns.map(() => null)]).slice(1));
    const head = [h("th", { scope: "col", class: "left" }, "Accuracy, %"), modelHeads(models), models.length === 2 ? h("th", { scope: "col" }, "difference") : null];
    const facts = [["Architecture", "arch"], ["Family", "family"], ["Technique", "technique"]].map(([label, key]) => h("tr", {}, h("th", { scope: "row", class: "left" }, label), models.map((model) => h("td", { class: "quiet" }, unknown(model[key]))), models.length === 2 ? h("td") : null));
    return h("div", { class: "intervals" }, table(`${board.data}, ${threatOf(board)}`, head, [compareRows(board.columns.map((column) => column.label), own), facts], "compare"));
  }

  function compareCharts(board, models, docs) {
    const charts = [], kinds = [["budget", board.threat ? budgetLabel(board) : ""], ["strength", STEPS]];
    for (const [kind, label] of kinds) {
      const of = (doc) => doc.curves.filter((curve) => curve.kind === kind && curve.data === board.data && curve.threat === board.threat && (kind === "budget" || budgetOf(curve) === board.eps));
      const attacks = [...new Set(docs.flatMap((doc) => of(doc).map((curve) => curve.attack)))].sort();
      for (const attack of attacks) {
        const series = models.map((model, at) => ({ name: model.name, curve: of(docs[at]).find((curve) => curve.attack === attack) })).filter((one) => one.curve);
        const plain = series.map((one) => ({ name: one.name, points: kind === "budget" ? scaled(one.curve) : one.curve.points }));
        if (series.length > 1) charts.push(lineChart(`${attack}: accuracy against ${kind === "budget" ? "budget" : "attack steps"}`, label, kind === "budget" ? sensible(plain) : plain));
      }
    }
    const severity = models.map((model, at) => ({ name: model.name, points: severityPoints(docs[at], board.data) })).filter((one) => one.points.length > 1);
    if (severity.length > 1) charts.push(lineChart("Accuracy against corruption severity", "severity", severity));
    return charts.length ? h("div", { class: "charts" }, charts) : h("p", { class: "quiet" }, "No attack was run on these models at several budgets.");
  }

  function compareCorruptions(data, models, docs) {
    const own = docs.map((doc) => doc.cells.filter((cell) => cell.data === data && cell.corruption && cell.attack === "none"));
    const names = [...new Set(own.flat().map((cell) => cell.corruption))].sort();
    if (names.length === 0) return null;
    const rows = names.map((name) => h("tr", {}, h("th", { scope: "row" }, name.replaceAll("_", " ")), own.map((cells) => {
      const values = cells.filter((cell) => cell.corruption === name).map((cell) => cell.number[0]);
      return heatCell(values.length ? mean(values) : undefined);
    })));
    return h("section", {}, h("h2", {}, "Corruptions"), table("Mean accuracy over severities, in per cent", [h("th", { scope: "col" }, "Corruption"), modelHeads(models)], rows, "heat"));
  }

  // ---- transfer between all models -----------------------------------------------------------------------------
  // What maps show: words of the choice, the table of the document, words of the caption.
  const TRANSFERS = { "": ["attack success rate", "success", "attack success rate on"], both: ["success where both are right", "both", "attack success rate, among images that both have right, on"], accuracy: ["accuracy", "values", "accuracy of"] };

  function showTransfer(query) {
    const show = TRANSFERS[query.get("show")] ? query.get("show") : "", [, key, words] = TRANSFERS[show];
    const maps = index.transfers.map((map) => {
      const rows = map.sources.map((source, at) => h("tr", {}, h("th", { scope: "row" }, named(source)), map[key][at].map((value) => heatCell(value === null ? undefined : value))));
      return table(`${map.data}, ${map.attack}, ${map.n.toLocaleString("en")} examples: ${words} the target (column) with images made for the source (row), per cent`, [h("th", { scope: "col" }, "Source"), map.targets.map((at) => h("th", { scope: "col" }, named(index.models[at].name)))], rows, "heat");
    });
    return [h("h1", { tabindex: "-1" }, "Transfer between models"), h("p", { class: "quiet" }, "Adversarial images are made once for each source and shown to every target. The success rate is over the images that the target has right without an attack; of targeted images over all, by whether they are taken for their class."),
      h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, choice("Show", "show", Object.entries(TRANSFERS).map(([name, [text]]) => [name, text]), show, (value) => { location.hash = value ? `#/transfer?show=${value}` : "#/transfer"; })), maps];
  }

  // ---- studies: techniques beside their baselines ---------------------------------------------------------------
  function studyCell(number) {
    if (number === null) return h("td", { class: "none" }, h("span", { "aria-label": "not measured" }, "–"));
    const [mean, spread, gain] = number;
    return h("td", {}, percent(mean) + (spread === null ? "" : ` ± ${percent(spread)}`), gain === null ? null : h("span", { class: "gain" }, `${gain < 0 ? "−" : "+"}${percent(Math.abs(gain))}`));
  }

  const epochCharts = (study) => h("div", { class: "charts" }, Object.entries(study.epochs).map(([name, series]) =>
    lineChart(`${study.name}: ${name} accuracy on held-out examples after each epoch`, "epoch", series.slice(0, 2 * SERIES))));

  function showStudies() {
    const tables = index.studies.map((study) => {
      const rows = study.rows.map((row) => h("tr", {}, h("th", { scope: "row", class: "name" }, named(row.group)), h("td", { class: "left" }, row.against ? named(row.against) : "–"),
        h("td", {}, String(row.runs)), row.numbers.map(studyCell), h("td", {}, row.seconds === null ? "–" : row.seconds.toFixed(0))));
      const heads = ["runs", ...study.columns, "training, s"].map((name) => h("th", { scope: "col" }, name));
      return [h("h2", {}, named(study.name)), table(`${study.name}: accuracy in per cent, mean and deviation over the runs; below it the gain over the technique it is compared with`, [headers("technique", "against"), heads], rows, "board"), epochCharts(study)];
    });
    return [h("h1", { tabindex: "-1" }, "Studies"), h("p", { class: "quiet" }, "Networks that differ in one technique, trained and judged alike. A gain that is not larger than the deviations says nothing."), tables];
  }

  // ---- charts --------------------------------------------------------------------------------------------------
  function ticksBetween(low, high) {
    const step = [1, 2, 5, 10, 20].find((one) => (high - low) / one <= 7) || 25, found = [];
    for (let value = Math.ceil(low / step) * step; value <= high; value += step) found.push(value);
    return found;
  }

  // Steps of attacks differ by orders of magnitude: from some point on their axis is that of log(1 + x).
  function stepAxis(series, last) {
    const ends = series.map((one) => one.points.at(-1)[0]);
    if (last <= 200 && (last <= 60 || Math.min(...ends) * 8 > last)) return null;
    const marks = [0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000].filter((value) => value <= last);
    return { place: (value) => Math.log1p(value) / Math.log1p(last), marks };
  }

  function ticks(top) {
    const raw = top / 5, power = 10 ** Math.floor(Math.log10(raw || 1));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((value) => value >= raw) || 1;
    const found = [];
    for (let value = 0; value <= top * 1.0001; value += step) found.push(Number(value.toPrecision(6)));
    return found;
  }

  // Where two curves cross: before it one model is better, after it the other.
  const heightAt = (points, x) => {
    const k = points.findIndex((point) => point[0] >= x);
    if (k <= 0) return (k < 0 ? points.at(-1) : points[0])[1];
    const [[x0, y0], [x1, y1]] = [points[k - 1], points[k]];
    return y0 + ((x - x0) / (x1 - x0)) * (y1 - y0);
  };

  // What is proved at one radius and not at the next is not proved between them: a line would say more than is known.
  const stepped = (points) => points.flatMap((point, k) => (k ? [[points[k - 1][0], point[1]], point] : [point]));

  // The outline of what lies between the best certificate and the strongest attack; null without both.
  function gapBetween(series) {
    const proved = series.filter((one) => one.proved).map((one) => ({ points: stepped(one.points) })), attacked = series.filter((one) => !one.proved);
    if (proved.length === 0 || attacked.length === 0) return null;
    const last = Math.min(...attacked.map((one) => one.points.at(-1)[0]));
    const xs = [...new Set(series.flatMap((one) => one.points.map((point) => point[0])))].filter((x) => x <= last).sort((a, b) => a - b);
    // Beyond its largest radius a certificate says nothing.
    const below = (x) => Math.max(...proved.map((one) => (x > one.points.at(-1)[0] ? 0 : heightAt(one.points, x))));
    const above = (x) => Math.min(...attacked.map((one) => heightAt(one.points, x)));
    return [...xs.map((x) => [x, above(x)]), ...stepped(xs.map((x) => [x, Math.min(below(x), above(x))])).reverse()];
  }

  function crossings([first, second]) {
    const last = Math.min(first.points.at(-1)[0], second.points.at(-1)[0]);
    const xs = [...new Set([...first.points, ...second.points].map((point) => point[0]))].filter((x) => x <= last).sort((a, b) => a - b);
    const gaps = xs.map((x) => heightAt(first.points, x) - heightAt(second.points, x)), found = [];
    let sign = 0, before = 0;
    gaps.forEach((gap, k) => {
      if (gap === 0) return;
      if (sign && Math.sign(gap) !== sign) {
        const x = gaps[before] === gap ? xs[k] : xs[before] + (gaps[before] / (gaps[before] - gap)) * (xs[k] - xs[before]);
        found.push([x, heightAt(first.points, x)]);
      }
      sign = Math.sign(gap);
      before = k;
    });
    return found;
  }

  function lineChart(title, xLabel, series) {
    const width = room(460), height = 260, left = 36, right = 12, top = 10, bottom = 38;
    const xMax = Math.max(...series.flatMap((one) => one.points.map((point) => point[0]))) || 1, long = xLabel === STEPS ? stepAxis(series, xMax) : null;
    const x = (value) => left + (long ? long.place(value) : value / xMax) * (width - left - right), y = (value) => top + (1 - value / 100) * (height - top - bottom);
    const marks = [0, 25, 50, 75, 100].map((value) => [s("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }), s("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, String(value))]);
    const below = (long ? long.marks : ticks(xMax)).map((value) => s("text", { x: x(value), y: height - bottom + 16, "text-anchor": "middle" }, String(value)));
    const lines = series.map((one, at) => {
      const look = `c${at % 6}${at > 5 ? " dash" : ""}`;
      const path = (one.proved ? stepped(one.points) : one.points).map((point, k) => `${k ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`).join("");
      const dots = one.points.length > 9 ? [] : one.points.map((point) => s("circle", { class: `series ${look}`, cx: x(point[0]), cy: y(point[1]), r: 2.6 }, s("title", {}, `${one.name}: ${percent(point[1])} % at ${Number(point[0].toPrecision(4))}`)));
      return [s("path", { class: `series ${look}`, d: path }), dots];
    });
    const between = gapBetween(series);
    const gap = between ? s("polygon", { class: "gap", points: between.map((point) => `${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`).join(" ") }, s("title", {}, "neither proved nor broken")) : null;
    const crossed = !between && series.length === 2 && series.every((one) => one.points.length > 1) ? crossings(series) : [];
    const spots = crossed.map(([px, py]) => s("circle", { class: "cross", cx: x(px), cy: y(py), r: 5 }, s("title", {}, `The curves cross at ${Number(px.toPrecision(3))}, ${percent(py)} %`)));
    const drawing = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}. The values follow as a table.` }, marks, below, gap, lines, spots,
      s("line", { class: "axis", x1: left, x2: width - right, y1: y(0), y2: y(0) }), s("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, long ? `${xLabel}, logarithmic` : xLabel));
    const legend = h("ul", { class: "legend" }, series.map((one, at) => h("li", {}, h("span", { class: `c${at % 6}` }), h("bdi", {}, one.name))), between ? h("li", {}, h("span", { class: "gap" }), "neither proved nor broken") : null);
    const values = h("details", {}, h("summary", {}, "Values"), series.map((one) => table(`${one.name}: ${title}`, headers(xLabel, title.includes("success rate") ? "success rate, %" : "accuracy, %"), one.points.map((point) => h("tr", {}, h("td", { class: "left" }, String(Number(point[0].toPrecision(4)))), h("td", { class: "left" }, percent(point[1])))))));
    const note = crossed.length ? h("p", { class: "meta" }, `The curves cross at ${crossed.map(([px]) => Number(px.toPrecision(3))).join(", ")}: which model is better depends on it.`) : null;
    return h("figure", {}, h("figcaption", {}, title), drawing, JR.share.figureButton(drawing, title), legend, note, values);
  }

  // ---- routes and theme ----------------------------------------------------------------------------------------
  // Other scripts add views: {place, title, there(index), show(index, query)}.
  const views = [];
  const shownViews = () => views.filter((one) => one.there(index));
  let turn = 0;
  async function route(arrived) {
    const mine = ++turn, [path, words] = (location.hash.slice(1) || "/").split("?"), [, asked, rest] = path.split("/");
    // Without a board, as of tables alone, what else there is comes first.
    const place = asked || (index.boards.length ? "" : shownViews()[0]?.place ?? "");
    const query = new URLSearchParams(words || "");
    let nodes;
    try {
      if (place === "model") nodes = await showModel(rest);
      else if (place === "compare") nodes = await showCompare((rest || "").split(",").slice(0, MOST), query);
      else if (place === "transfer" && index.transfers.length) nodes = showTransfer(query);
      else if (shownViews().some((one) => one.place === place)) nodes = views.find((one) => one.place === place).show(index, query);
      else nodes = place === "studies" && index.studies.length ? showStudies() : showBoard(query);
    } catch (error) {
      nodes = [h("h1", { tabindex: "-1" }, "This page could not be drawn"), h("p", {}, "Its data is missing or damaged; write the report again."), h("p", { class: "quiet" }, String(error.message))];
    }
    if (mine !== turn) return;
    const others = shownViews();
    const tabs = [["#/", "Leaderboard", !["model", "compare", "transfer", "studies", ...others.map((one) => one.place)].includes(place)]];
    tabs.push(...others.map((one) => [`#/${one.place}`, one.title, place === one.place]));
    if (index.transfers.length) tabs.push(["#/transfer", "Transfer", place === "transfer"]);
    if (index.studies.length) tabs.push(["#/studies", "Studies", place === "studies"]);
    $("views").replaceChildren(...tabs.map(([href, text, on]) => h("a", { href, "aria-current": on ? "page" : null }, text)));
    $("main").replaceChildren(...[nodes].flat(9).filter((node) => node), JR.share.links());
    const heading = document.querySelector("h1");
    document.title = `${heading.textContent} – Robustness leaderboard`;
    tray();
    if (arrived) { window.scrollTo(0, 0); heading.focus({ preventScroll: true }); }
  }

  const stored = (value) => {
    try { return value === undefined ? localStorage.getItem("theme") : localStorage.setItem("theme", value); } catch { return null; }
  };
  const setTheme = (dark) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    $("theme")?.setAttribute("aria-pressed", String(dark));
  };
  const wished = stored() || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  setTheme(wished === "dark");

  function boards(data) {
    index = data;
    setTheme(document.documentElement.dataset.theme === "dark");
    $("theme").addEventListener("click", () => {
      const dark = document.documentElement.dataset.theme !== "dark";
      setTheme(dark);
      stored(dark ? "dark" : "light");
    });
    $("skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus(); });
    addEventListener("hashchange", () => route(true));
    addEventListener("keydown", (event) => {
      const field = document.querySelector('input[type="search"]');
      if (event.key === "/" && field && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); field.focus(); }
    });
    route(false);
  }

  const tools = { h, s, say, room, ticksBetween, choice, table, headers, lineChart, ticks, heatCell, pager, named, many, percent, fileLink, PAGE, modelArch: (at) => (at === null ? null : index.models[at].arch), modelLink: (at, name) => (at === null ? named(name) : h("a", { href: `#/model/${index.models[at].id}` }, named(name))), modelHref: (at) => (at === null ? null : `#/model/${index.models[at].id}`) };
  return { boards, model: (id, data) => documents.set(id, data), view: (one) => views.push(one), tools };
})();
