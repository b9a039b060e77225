// Saves the answers, and unfolds everything for printing. The page is complete without it.
(() => {
  "use strict";
  const form = document.querySelector(".answers");
  const status = document.getElementById("answered");
  const fields = [...form.querySelectorAll("fieldset")];

  const answers = () => ({
    schema: "gpuprov-review-answers/1",
    profile: form.dataset.profile,
    profile_sha256: form.dataset.profileSha256,
    lock_sha256: form.dataset.lockSha256,
    reviewer: form.elements.namedItem("reviewer").value.trim(),
    answered_at: new Date().toISOString(),
    answers: fields.map((field) => ({
      id: field.dataset.question,
      question: field.querySelector("legend").textContent.trim(),
      answer: field.querySelector("input:checked")?.value ?? null,
      note: field.querySelector(".note input").value.trim(),
    })),
  });
  const asText = (all) => [
    `Review of ${all.profile} by ${all.reviewer || "an unnamed reviewer"}, ${all.answered_at}`,
    `profile ${all.profile_sha256}`,
    `lock    ${all.lock_sha256}`,
    "",
    ...all.answers.flatMap((each) => [`[${each.answer ?? "open"}] ${each.question}`, ...(each.note ? [`    ${each.note}`] : [])]),
    "",
  ].join("\n");
  const count = () => {
    const open = fields.filter((field) => !field.querySelector("input:checked")).length;
    status.textContent = open ? `${open} of ${fields.length} still open` : "all answered";
  };

  for (const button of form.querySelectorAll("[data-export]")) {
    button.addEventListener("click", () => {
      const all = answers();
      const json = button.dataset.export === "json";
      const text = json ? `${JSON.stringify(all, null, 2)}\n` : asText(all);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: json ? "application/json" : "text/plain" }));
      link.download = `${all.profile}-answers.${json ? "json" : "txt"}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    });
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", count);
  // On paper nothing can be unfolded later, and not every browser lets the style sheet do it.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const each of folded) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of folded) each.open = false; });
  form.querySelector(".export").hidden = false;
  count();
})();
