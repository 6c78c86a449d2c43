"use strict";
const searched = new URLSearchParams(window.location.search).get("q") || "";
const words = splitQuery(searched.toLowerCase().trim());

// Puts the page of an operation before lists in which it stands, when its name was searched for. The
// pages of operations have the same headings, such as "What it costs". So a word in a heading counts
// no more there than one in the text, and a guide with the word in its headings comes first. Of two
// guides, the one with the word in its title does.
{
  const LISTS = /^(api|rows|architecture|contributing|profiles\/|decisions\/)/;
  const FORMS = /^(ops|primitives)\//;
  const NAMED = 10; // A hit in a title, a heading or a name has at least this score.
  const TEXT = 5; // The score of a hit in a text.
  Scorer.score = ([page, title, , , score, , kind]) => {
    if (LISTS.test(page)) return score - 3;
    if (score < NAMED) return score;
    const titled = words.some((word) => title.toLowerCase().includes(word));
    if (!FORMS.test(page)) return score + (kind === "text" && titled ? 1 : 0);
    if (kind === "text" && !titled) return TEXT;
    return score + (page.startsWith("ops/") ? 5 : 3);
  };
}

// Adds to each result of a search the words around the first hit. They come from a script for each
// page, which finishing.py writes, so that it works on a site that is opened as a file too.
{
  const AROUND = 110; // Characters on each side of a hit.
  const texts = new Map(); // By page: a promise of its sections.
  const resolvers = new Map();
  const root = document.documentElement.dataset.content_root;

  window.addExcerpts = ([page, sections]) => resolvers.get(page)(sections);

  const sectionsOf = (page) => {
    if (!texts.has(page)) {
      const script = document.createElement("script");
      script.src = `${root}_excerpts/${page}.js`;
      const loaded = new Promise((resolve) => {
        resolvers.set(page, resolve);
        script.onerror = () => resolve([]);
      });
      texts.set(page, loaded);
      document.head.append(script);
    }
    return texts.get(page);
  };

  // The search finds words by their stems: "hanging" finds "hang".
  const find = (text, word) => {
    for (let length = word.length; length >= Math.min(4, word.length); length -= 1) {
      const start = text.indexOf(word.slice(0, length));
      if (start >= 0) return [start, length];
    }
    return null;
  };

  const excerpt = (text) => {
    const lower = text.toLowerCase();
    const hits = words.map((word) => find(lower, word)).filter((hit) => hit);
    const [first] = hits.sort((a, b) => a[0] - b[0]);
    const start = Math.max(0, (first ? first[0] : 0) - AROUND);
    const end = Math.min(text.length, (first ? first[0] : 0) + AROUND);
    const paragraph = document.createElement("p");
    paragraph.className = "excerpt";
    let at = start;
    paragraph.append(start > 0 ? "…" : "");
    for (const [position, length] of hits) {
      if (position < at || position + length > end) continue;
      const mark = document.createElement("mark");
      mark.textContent = text.slice(position, position + length);
      paragraph.append(text.slice(at, position), mark);
      at = position + length;
    }
    paragraph.append(text.slice(at, end), end < text.length ? "…" : "");
    return paragraph;
  };

  const count = (text) => {
    const lower = text.toLowerCase();
    return words.filter((word) => lower.includes(word)).length;
  };

  const show = async (item) => {
    const link = new URL(item.querySelector("a").href);
    const base = new URL(root || "./", window.location.href).pathname;
    const page = decodeURIComponent(link.pathname).slice(base.length).replace(/\.html$/, "");
    const sections = await sectionsOf(page);
    const id = decodeURIComponent(link.hash.slice(1));
    const named = sections.filter(([ids]) => ids.includes(id));
    const candidates = (named.length ? named : sections).map(([, text]) => text);
    // The section with the most words of the query, and the first of these.
    const best = candidates.reduce((a, b) => (count(b) > count(a) ? b : a), candidates[0] || "");
    if (best) item.append(excerpt(best));
  };

  // A result loads its script when it comes into view: a word can have hundreds of results.
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting)) {
      seen.unobserve(entry.target);
      show(entry.target);
    }
  }, { rootMargin: "200px" });
  const results = document.getElementById("search-results");
  new MutationObserver((changes) => {
    for (const node of changes.flatMap((change) => [...change.addedNodes])) {
      if (node.matches?.("ul.search li")) seen.observe(node);
    }
  }).observe(results, { childList: true, subtree: true });
}
