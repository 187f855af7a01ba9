'use strict';
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Light, dark, or as the system has it.
  const theme = document.getElementById('theme');
  const themes = ['auto', 'light', 'dark'];
  theme.hidden = false;
  theme.addEventListener('click', () => {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme || 'auto') + 1) % 3];
    if (next === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    theme.textContent = 'theme: ' + next;
  });

  // A link into something folded opens it.
  const unfold = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.tagName === 'DETAILS') part.open = true;
    const own = target.querySelector(':scope > details.section');
    if (own) own.open = true;
    target.scrollIntoView();
  };
  addEventListener('hashchange', unfold);

  // Panels of a figure: one at a time.
  for (const figure of all('figure')) {
    const panels = all('.panel', figure);
    const show = (number) => panels.forEach((panel, place) => { panel.hidden = place !== number; });
    show(0);
    all('.panels input', figure).forEach((input, place) => input.addEventListener('change', () => show(place)));
  }

  // Legends: a button switches its entry; a series is drawn while all its entries are on. With Alt (or a double click) only
  // that one of its group stays.
  for (const panel of all('.panel')) {
    const buttons = all('.legend button[data-key]', panel);
    const apply = () => {
      const on = new Set(buttons.filter((button) => button.getAttribute('aria-pressed') === 'true').map((button) => button.dataset.key));
      for (const series of all('.series', panel)) {
        series.classList.toggle('off', !series.dataset.keys.split(' ').filter(Boolean).every((key) => on.has(key)));
      }
    };
    const set = (button, on) => button.setAttribute('aria-pressed', String(on));
    for (const legend of all('.legend[role]', panel)) {
      const own = all('button[data-key]', legend);
      const only = (chosen) => {
        const alone = own.every((button) => (button.getAttribute('aria-pressed') === 'true') === (button === chosen));
        own.forEach((button) => set(button, alone || button === chosen));
        apply();
      };
      for (const button of own) {
        button.addEventListener('click', (event) => {
          if (event.altKey) { only(button); return; }
          set(button, button.getAttribute('aria-pressed') !== 'true');
          apply();
        });
        button.addEventListener('dblclick', () => only(button));
      }
      for (const button of all('.every', legend)) {
        button.addEventListener('click', () => {
          own.forEach((other) => set(other, button.dataset.all === 'true'));
          apply();
        });
      }
      // Arrows go along a legend.
      legend.addEventListener('keydown', (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (!step) return;
        const list = all('button', legend).filter((button) => !button.closest('details:not([open])'));
        const next = list[(list.indexOf(document.activeElement) + step + list.length) % list.length];
        next.focus();
        event.preventDefault();
      });
    }
  }

  // What a mark stands for.
  const tip = document.createElement('div');
  tip.id = 'tip';
  tip.setAttribute('role', 'status');
  document.body.append(tip);
  for (const title of all('.point title')) { title.parentNode.dataset.note = title.textContent; title.remove(); }
  const tell = (mark) => {
    all('.point.at').forEach((other) => other.classList.remove('at'));
    tip.classList.toggle('on', Boolean(mark));
    if (!mark) return;
    tip.textContent = mark.dataset.note;
    const box = mark.getBoundingClientRect();
    const wide = tip.offsetWidth;
    const left = Math.min(Math.max(8, box.x + box.width / 2 - wide / 2), innerWidth - wide - 8);
    const above = box.y - tip.offsetHeight - 8;
    tip.style.left = left + 'px';
    tip.style.top = (above > 60 ? above : box.bottom + 8) + 'px';
  };
  const point = (event) => tell(event.target.closest && event.target.closest('.point'));
  document.addEventListener('pointerover', point);
  document.addEventListener('pointerdown', point);
  addEventListener('scroll', () => tip.classList.remove('on'), { passive: true });

  // Pictures take the keyboard: left and right go along a series, up and down to the next series.
  for (const chart of all('svg.chart[tabindex]')) {
    let place = [0, -1];
    const rows = () => all('.series:not(.off)', chart).map((series) => all('.point', series)).filter((marks) => marks.length);
    chart.addEventListener('keydown', (event) => {
      const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0], Escape: [0, 0] }[event.key];
      if (!steps) return;
      event.preventDefault();
      const marks = rows();
      if (event.key === 'Escape' || !marks.length) { tell(null); return; }
      const row = (place[0] + steps[0] + marks.length) % marks.length;
      const column = Math.min(Math.max(place[1] + steps[1], 0), marks[row].length - 1);
      place = [row, column];
      tell(marks[row][column]);
      marks[row][column].classList.add('at');
    });
    chart.addEventListener('blur', () => tell(null));
  }

  // Tables: sort by a column, filter by words.
  for (const table of all('table.sortable')) {
    const body = table.tBodies[0];
    all('th button', table).forEach((button) => {
      const head = button.closest('th');
      button.addEventListener('click', () => {
        const descending = head.getAttribute('aria-sort') === 'ascending';
        all('th', table).forEach((other) => other.removeAttribute('aria-sort'));
        head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
        const key = (row) => {
          const cell = row.cells[head.cellIndex];
          const value = cell.dataset.value ?? cell.textContent;
          const number = Number(value);
          return value === '' ? null : Number.isNaN(number) ? value : number;
        };
        const compare = (a, b) => {
          // What is missing comes last in either order.
          if (a === null || b === null) return (a === null) - (b === null);
          const order = typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
          return descending ? -order : order;
        };
        const rows = [...body.rows].map((row) => [key(row), row]);
        rows.sort((a, b) => compare(a[0], b[0]));
        body.append(...rows.map((pair) => pair[1]));
      });
    });
  }
  for (const input of all('.filter input')) {
    const table = input.closest('.table').querySelector('table');
    const shown = input.closest('.filter').querySelector('output');
    const apply = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        count += !row.hidden;
      }
      shown.textContent = `${count} of ${table.tBodies[0].rows.length}`;
    };
    input.addEventListener('input', apply);
    apply();
  }

  // Downloads: the numbers of a figure, the picture as SVG or PNG.
  const save = (name, blob) => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const csv = (table) => [...table.rows].map((row) => [...row.cells].map((cell) => {
    // Words in a column of numbers, such as `not reached`, have no value.
    const text = cell.dataset.value || cell.textContent.trim();
    return /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  }).join(',')).join('\n') + '\n';
  const lines = (text, letters) => text.split(' ').reduce((rows, word) => {
    if (rows.length && rows.at(-1).length + word.length < letters) rows[rows.length - 1] += ' ' + word;
    else rows.push(word);
    return rows;
  }, []);
  // The wide one in any window: a narrow one has no place for long names.
  const picture = (panel) => {
    const svg = panel.querySelector('svg.wide').cloneNode(true);
    all('.off', svg).forEach((series) => series.remove());
    const drawn = new Set(all('.series', svg).flatMap((series) => series.dataset.keys.split(' ')));
    const box = svg.viewBox.baseVal;
    const space = 'http://www.w3.org/2000/svg';
    const make = (name, attributes, text = '') => {
      const element = document.createElementNS(space, name);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      element.textContent = text;
      return element;
    };
    // Title and conditions above, legend below, style inside: the picture stands alone.
    const conditions = panel.querySelector('.circumstances');
    const above = [
      ...lines(panel.dataset.title, (box.width - 36) / 8.4).map((line) => [20, 'title', line]),
      ...(conditions ? lines(conditions.textContent, (box.width - 36) / 6.2).map((line) => [16, 'subtitle', line]) : []),
    ];
    let top = 4;
    const heading = above.map(([height, name, line]) => make('text', { class: name, x: 18, y: top += height }, line));
    top += 20;
    const entries = all('.legend button[data-key]', panel).filter((button) => drawn.has(button.dataset.key));
    const rows = [];
    let x = box.width;
    for (const entry of entries) {
      const text = entry.textContent.trim();
      const wide = 56 + 6.6 * text.length;
      if (x + wide > box.width - 18) { rows.push([]); x = 18; }
      rows.at(-1).push([x, entry, text]);
      x += wide;
    }
    const height = top + box.height + 22 * rows.length + 8;
    const plot = make('g', { transform: `translate(0 ${top})` });
    plot.append(...svg.childNodes);
    svg.append(
      make('style', {}, document.getElementById('chart-style').textContent),
      make('rect', { class: 'background', width: box.width, height }),
      ...heading,
      plot,
    );
    rows.forEach((row, number) => row.forEach(([left, entry, text]) => {
      const group = make('g', { transform: `translate(${left} ${top + box.height + 12 + 22 * number})` });
      group.append(...[...entry.querySelector('svg').cloneNode(true).childNodes], make('text', { x: 36, y: 4 }, text));
      svg.append(group);
    }));
    const themed = getComputedStyle(document.documentElement);
    const names = ['ink', 'quiet', 'line', 'faint', 'paper', 'reference', ...Array.from({ length: 8 }, (_, n) => 's' + n)];
    svg.setAttribute('style', names.map((name) => `--${name}:${themed.getPropertyValue('--' + name).trim()}`).join(';'));
    svg.setAttribute('class', 'chart');
    svg.setAttribute('viewBox', `0 0 ${box.width} ${height}`);
    svg.setAttribute('width', box.width);
    svg.setAttribute('height', height);
    return { text: new XMLSerializer().serializeToString(svg), width: box.width, height };
  };
  document.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-save]');
    if (!button) return;
    if (button.dataset.save === 'table') {
      save(button.dataset.name + '.csv', new Blob([csv(button.closest('.table').querySelector('table'))], { type: 'text/csv' }));
      return;
    }
    const panel = button.closest('.panel');
    const name = panel.dataset.file;
    if (button.dataset.save === 'csv') {
      save(name + '.csv', new Blob([csv(panel.querySelector('table'))], { type: 'text/csv' }));
      return;
    }
    const { text, width, height } = picture(panel);
    if (button.dataset.save === 'svg') {
      save(name + '.svg', new Blob([text], { type: 'image/svg+xml' }));
      return;
    }
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [2 * width, 2 * height];
      canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(name + '.png', blob));
    };
    image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(text);
  });

  // Where the reader is.
  const links = all('.bar nav a');
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links) link.classList.toggle('here', link.hash === '#' + entry.target.id);
    }
  }, { rootMargin: '-60px 0px -70% 0px' });
  all('main section[id]').forEach((section) => seen.observe(section));
  unfold();
})();
