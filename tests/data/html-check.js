// Looks at pages in a browser: each in frames of five widths, with its own policy against scripts, and once more for axe. The result is
// JSON in the element "result". PAGES is a list of [name, html, html without the policy]; AXE is axe-core's source or an empty text.
(async () => {
  const widths = [375, 768, 900, 1280, 1600];
  const results = {};
  const frame = (html, width) => new Promise((resolve) => {
    const element = document.createElement('iframe');
    element.style.cssText = `width:${width}px;height:900px;border:0`;
    element.onload = () => resolve(element);
    element.srcdoc = html;
    document.body.appendChild(element);
  });
  const outline = (page) => {
    const lines = [];
    for (const element of page.querySelectorAll('h1,h2,h3,caption,.drawing,details')) {
      const name = element.localName;
      if (name === 'caption') {
        const table = element.closest('table');
        lines.push(`table ${element.textContent}: ${table.tHead.rows[0].cells.length} columns`);
      } else if (name === 'details') {
        lines.push(`details ${element.querySelector('summary').textContent.replace(/ \(\d+\)/, '')}`);
      } else if (name === 'div') {
        const box = element.querySelector('svg').getBoundingClientRect();
        lines.push(`drawing ${element.getAttribute('aria-label')}: ${box.width > 100 && box.height > 50 ? 'drawn' : 'empty'}`);
      } else {
        lines.push(`${name} ${element.textContent.trim()}`);
      }
    }
    return lines;
  };
  // Blocks of a page that overlap, or leave it on the right.
  const faults = (page, width) => {
    const found = [];
    const root = page.documentElement;
    if (root.scrollWidth > width) found.push(`wider than ${width}: ${root.scrollWidth}`);
    const blocks = [...page.querySelectorAll('header>*,nav,main>*,footer')].filter((e) => !e.closest('details:not([open])') || e.localName === 'details');
    let below = -1;
    for (const block of blocks) {
      const box = block.getBoundingClientRect();
      if (box.height === 0 && block.textContent.trim() !== '') found.push(`hidden: ${block.localName}`);
      if (box.top < below - 1) found.push(`overlap: ${block.localName} ${block.textContent.slice(0, 40)}`);
      if (box.right > width + 1) found.push(`too wide: ${block.localName}`);
      below = box.bottom;
    }
    // A drawing scrolls on a phone only.
    for (const drawing of page.querySelectorAll('.drawing')) {
      if (width >= 768 && drawing.scrollWidth > drawing.clientWidth + 1) found.push(`clipped: ${drawing.getAttribute('aria-label')}`);
    }
    for (const element of page.querySelectorAll('script,img,iframe,object,embed,link:not([rel=icon]),form')) found.push(`element: ${element.localName}`);
    return found;
  };
  for (const [name, html, plain] of PAGES) {
    const result = { outline: [], faults: [], axe: [] };
    for (const width of widths) {
      const element = await frame(html, width);
      result.faults.push(...faults(element.contentDocument, width).map((fault) => `${width}: ${fault}`));
      if (width === 1280) result.outline = outline(element.contentDocument);
      element.remove();
    }
    if (AXE && plain) {
      const element = await frame(plain, 1280);
      const script = element.contentDocument.createElement('script');
      script.textContent = AXE;
      element.contentDocument.head.appendChild(script);
      for (const closed of element.contentDocument.querySelectorAll('details')) closed.open = true;
      const run = await element.contentWindow.axe.run(element.contentDocument, { resultTypes: ['violations'] });
      result.axe = run.violations.map((v) => `${v.id}: ${v.nodes.length} times, ${v.nodes[0].html.slice(0, 120)}: ${v.nodes[0].failureSummary}`);
      element.remove();
    }
    results[name] = result;
  }
  const pre = document.createElement('pre');
  pre.id = 'result';
  pre.textContent = JSON.stringify(results);
  document.body.appendChild(pre);
  document.title = 'done';
})();
